import { defineConfig } from 'tsup'
import { programConfig } from '../scripts/program-config.js'

// The programs, in files that they share and what they load only where they need it.
export default defineConfig(
  programConfig({ entry: ['src/akri-controller.ts', 'src/akri-cleanup.ts'] }),
)
