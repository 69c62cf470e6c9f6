// A small HTTP server on the loopback device, for tests of what fetches. One connection at a time.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace infercast::testing {

inline std::string HttpReply(const std::string& status, const std::string& body,
                             const std::string& more = "") {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n" + more + "\r\n" + body;
}

// Answers every connection with what `answer` makes of the request's head.
class HttpServer {
 public:
  explicit HttpServer(std::function<std::string(const std::string&)> answer)
      : answer_(std::move(answer)) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    ::listen(socket_, 16);
    socklen_t size = sizeof(address);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer() {
    stop_ = true;
    ::shutdown(socket_, SHUT_RDWR);
    ::close(socket_);
    thread_.join();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void Serve() {
    while (!stop_) {
      const int client = ::accept(socket_, nullptr, nullptr);
      if (client < 0) return;
      std::string head;
      char part[4096];
      while (head.find("\r\n\r\n") == std::string::npos) {
        const ssize_t bytes = ::recv(client, part, sizeof(part), 0);
        if (bytes <= 0) break;
        head.append(part, static_cast<std::size_t>(bytes));
      }
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(head);
      }
      const std::string reply = answer_(head);
      std::size_t sent = 0;
      while (sent < reply.size()) {
        const ssize_t bytes =
            ::send(client, reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
        if (bytes <= 0) break;
        sent += static_cast<std::size_t>(bytes);
      }
      ::close(client);
    }
  }

  std::function<std::string(const std::string&)> answer_;
  int socket_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

}  // namespace infercast::testing
