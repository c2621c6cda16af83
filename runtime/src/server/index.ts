// `@akrijs/runtime/server`: servers whose clients may be hostile.
export * from './bounded-listener.js'
export * from './http-refusal.js'
export * from './http-server.js'
export * from './recent-use.js'
