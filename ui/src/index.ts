// The page with the devices, and its server.
export { UiPortError, UiTrialError } from './errors.js'
export { type ProxiedUi, serveUi, type UiServer } from './server/ui-server.js'
export * from './source.js'
