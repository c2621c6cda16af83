import path from 'node:path'

export const MANIFESTS = path.join(import.meta.dirname, '../../deploy/manifests')
