import { defineConfig } from 'tsup'
import { programConfig } from '../scripts/program-config.js'

export default defineConfig(programConfig({ entry: ['src/create-handler.ts'] }))
