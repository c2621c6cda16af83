import { defineConfig } from 'tsup'
import { programConfig } from '../scripts/program-config.js'

// The program, in one file and the files that it loads only when it needs them.
export default defineConfig(
  programConfig({
    entry: {
      'akri-agent': 'src/akri-agent.ts',
      'loop-watch': '../runtime/src/program/loop-watch.ts',
    },
  }),
)
