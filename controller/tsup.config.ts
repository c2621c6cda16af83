import { defineConfig } from 'tsup'
import { programConfig } from '../scripts/program-config.js'

// The program, in one file and what it loads only where it needs it.
export default defineConfig(programConfig({ entry: ['src/akri-controller.ts'] }))
