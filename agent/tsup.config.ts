import { defineConfig } from 'tsup'
import { programConfig } from '../scripts/program-config.js'

// The program, in one file and the files that it loads only when it needs them.
export default defineConfig(programConfig({ entry: ['src/akri-agent.ts'] }))
