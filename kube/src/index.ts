export * from './names.js'
export * from './types.js'
