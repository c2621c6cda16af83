export { applyJsonPatch } from '../patches.js'
export {
  answerWith,
  FakeApiServer,
  type Fate,
  type Handler,
  type Refusal,
  refuse,
} from './fake-api-server.js'
export { applyFields, updateFields } from './managed-fields.js'
export type { StoredObject, StoreRequest } from './object-store.js'
