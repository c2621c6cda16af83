// `@akrijs/runtime/server`: an HTTP server whose clients may be hostile.
export * from './bounded-listener.js'
export * from './connection-bound.js'
export * from './http-server.js'
