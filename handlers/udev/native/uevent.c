// A NETLINK_KOBJECT_UEVENT socket for Node.js: the device events of the kernel or of udevd.
//
//   open(groups, receiveBufferBytes, callback) -> close()
//   callback(message: Buffer | null, errno, senderPort, senderUid)
//
// The addon uses Node-API and functions of libuv from its stable ABI only. It uses types of libuv
// as pointers only. So one binary serves each version of Node.js. The binary links to no library
// (scripts/build-addon.mjs): the process has all functions already, with glibc and with musl.
#define _GNU_SOURCE
#define NAPI_VERSION 8
#include <errno.h>
#include <linux/netlink.h>
#include <node_api.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// The part of libuv that the addon uses.
struct uv_loop_s;
enum { UV_POLL_TYPE = 8, UV_READABLE_EVENT = 1 };
size_t uv_handle_size(int type);
int uv_poll_init(struct uv_loop_s *loop, void *handle, int fd);
int uv_poll_start(void *handle, int events, void (*callback)(void *handle, int status, int events));
int uv_poll_stop(void *handle);
void uv_close(void *handle, void (*callback)(void *handle));
void uv_unref(void *handle);
void *uv_handle_get_data(const void *handle);
void uv_handle_set_data(void *handle, void *data);

// The largest message. The kernel sends at most 2 KiB with the header, udevd 8 KiB.
enum { MESSAGE_BYTES = 65536 };
// The most messages that one call reads before it returns to the event loop.
enum { MESSAGES_PER_TURN = 256 };

struct listener {
  int fd;
  bool closing;
  int owners;  // the poll handle and the JavaScript function `close`
  void *poll;
  napi_env env;
  napi_ref callback;
  napi_async_context context;
  napi_async_cleanup_hook_handle cleanup;
  char message[MESSAGE_BYTES];
};

static void release(struct listener *listener) {
  if (--listener->owners == 0) free(listener);
}

static void on_closed(void *handle) {
  struct listener *listener = uv_handle_get_data(handle);
  napi_handle_scope scope;
  close(listener->fd);
  napi_open_handle_scope(listener->env, &scope);
  napi_delete_reference(listener->env, listener->callback);
  napi_async_destroy(listener->env, listener->context);
  napi_close_handle_scope(listener->env, scope);
  napi_remove_async_cleanup_hook(listener->cleanup);
  free(handle);
  release(listener);
}

static void begin_close(struct listener *listener) {
  if (listener->closing) return;
  listener->closing = true;
  uv_poll_stop(listener->poll);
  uv_close(listener->poll, on_closed);
}

// The environment ends: a worker is terminated, or the process exits.
static void on_environment_end(napi_async_cleanup_hook_handle handle, void *data) {
  (void)handle;
  begin_close(data);
}

static void on_close_collected(napi_env env, void *data, void *hint) {
  (void)env;
  (void)hint;
  begin_close(data);
  release(data);
}

static void tell(struct listener *listener, const char *message, size_t length, int error, uint32_t port, uint32_t uid) {
  napi_env env = listener->env;
  napi_handle_scope scope;
  napi_value callback, global, arguments[4], result;
  napi_open_handle_scope(env, &scope);
  napi_get_reference_value(env, listener->callback, &callback);
  napi_get_global(env, &global);
  if (message) napi_create_buffer_copy(env, length, message, NULL, &arguments[0]);
  else napi_get_null(env, &arguments[0]);
  napi_create_int32(env, error, &arguments[1]);
  napi_create_uint32(env, port, &arguments[2]);
  napi_create_uint32(env, uid, &arguments[3]);
  if (napi_make_callback(env, listener->context, global, callback, 4, arguments, &result) == napi_pending_exception) {
    napi_value exception;
    // No JavaScript calls this function, so the exception goes to `uncaughtException`.
    if (napi_get_and_clear_last_exception(env, &exception) == napi_ok) napi_fatal_exception(env, exception);
  }
  napi_close_handle_scope(env, scope);
}

static void on_readable(void *handle, int status, int events) {
  struct listener *listener = uv_handle_get_data(handle);
  char *message = listener->message;
  (void)events;
  // After an overrun libuv reports POLLERR and stops the poll. Start the poll again: recvmsg()
  // returns the error.
  if (status < 0) uv_poll_start(handle, UV_READABLE_EVENT, on_readable);
  for (int taken = 0; taken < MESSAGES_PER_TURN && !listener->closing; taken++) {
    union {
      struct cmsghdr header;
      char space[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct sockaddr_nl sender;
    struct iovec vector = {message, MESSAGE_BYTES};
    struct msghdr request = {.msg_name = &sender, .msg_namelen = sizeof sender, .msg_iov = &vector, .msg_iovlen = 1,
                             .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t length = recvmsg(listener->fd, &request, MSG_DONTWAIT);
    if (length < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return;
      int error = errno;
      // After ENOBUFS, messages are lost and the socket still works. Any other error ends the socket.
      if (error != ENOBUFS) uv_poll_stop(handle);
      tell(listener, NULL, 0, error, 0, UINT32_MAX);
      if (error == ENOBUFS) continue;
      return;
    }
    if (request.msg_flags & MSG_TRUNC) {
      tell(listener, NULL, 0, EMSGSIZE, sender.nl_pid, UINT32_MAX);
      continue;
    }
    uint32_t uid = UINT32_MAX;
    // The socket requests credentials only, so the first part has them. CMSG_NXTHDR would call a
    // function that only glibc has.
    struct cmsghdr *part = CMSG_FIRSTHDR(&request);
    if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_CREDENTIALS) {
      struct ucred credentials;
      memcpy(&credentials, CMSG_DATA(part), sizeof credentials);
      uid = credentials.uid;
    }
    tell(listener, message, (size_t)length, 0, sender.nl_pid, uid);
  }
}

static napi_value close_listener(napi_env env, napi_callback_info info) {
  void *data = NULL;
  size_t count = 0;
  napi_get_cb_info(env, info, &count, NULL, NULL, &data);
  if (data) begin_close(data);
  return NULL;
}

static napi_value fail(napi_env env, int error) {
  char code[16] = "errno ";
  // An errno has at most three digits. The C library's formatting is not used.
  int at = 6;
  if (error >= 100) code[at++] = (char)('0' + error / 100 % 10);
  if (error >= 10) code[at++] = (char)('0' + error / 10 % 10);
  code[at++] = (char)('0' + error % 10);
  code[at] = '\0';
  napi_throw_error(env, code, strerror(error));
  return NULL;
}

static napi_value open_listener(napi_env env, napi_callback_info info) {
  size_t count = 3;
  napi_value arguments[3], name, result;
  uint32_t groups = 0;
  int32_t buffer = 0;
  napi_valuetype type = napi_undefined;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  if (count < 3 || napi_get_value_uint32(env, arguments[0], &groups) != napi_ok ||
      napi_get_value_int32(env, arguments[1], &buffer) != napi_ok || napi_typeof(env, arguments[2], &type) != napi_ok ||
      type != napi_function) {
    napi_throw_type_error(env, NULL, "open(groups, receiveBufferBytes, callback)");
    return NULL;
  }

  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
  if (fd < 0) return fail(env, errno);
  struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = groups};
  int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  // A privileged process can exceed the limit of the system; any other process cannot.
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) < 0) {
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
  }
  if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) {
    int error = errno;
    close(fd);
    return fail(env, error);
  }

  struct uv_loop_s *loop = NULL;
  struct listener *listener = calloc(1, sizeof *listener);
  void *poll = calloc(1, uv_handle_size(UV_POLL_TYPE));
  napi_get_uv_event_loop(env, &loop);
  if (!listener || !poll || !loop || uv_poll_init(loop, poll, fd) != 0) {
    free(listener);
    free(poll);
    close(fd);
    return fail(env, ENOMEM);
  }
  listener->fd = fd;
  listener->owners = 2;
  listener->poll = poll;
  listener->env = env;
  uv_handle_set_data(poll, listener);
  napi_create_reference(env, arguments[2], 1, &listener->callback);
  napi_create_string_utf8(env, "uevent", NAPI_AUTO_LENGTH, &name);
  napi_async_init(env, NULL, name, &listener->context);
  napi_add_async_cleanup_hook(env, on_environment_end, listener, &listener->cleanup);
  uv_poll_start(poll, UV_READABLE_EVENT, on_readable);
  // An open socket alone must not keep the process alive.
  uv_unref(poll);

  napi_create_function(env, "close", NAPI_AUTO_LENGTH, close_listener, listener, &result);
  napi_add_finalizer(env, result, listener, on_close_collected, NULL, NULL);
  return result;
}

NAPI_MODULE_INIT() {
  napi_value function;
  napi_create_function(env, "open", NAPI_AUTO_LENGTH, open_listener, NULL, &function);
  napi_set_named_property(env, exports, "open", function);
  return exports;
}
