export * from './names.js'
export * from './reconcile-queue.js'
export * from './types.js'
