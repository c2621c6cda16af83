export { TestClient } from './client.js'
export type { TestClock } from './clock.js'
