import { defineConfig } from 'tsup'
import { pageConfig, programConfig } from '../scripts/program-config.js'

export default defineConfig([
  programConfig({
    entry: {
      akri: 'src/akri.ts',
      'discovery-process': 'src/discovery-process.ts',
      // The thread in which that process watches its standard input.
      'stdin-watch': '../sdk/src/stdin-watch.ts',
      'loop-watch': '../runtime/src/program/loop-watch.ts',
    },
  }),
  pageConfig('../ui/src/page', 'dist/page'),
])
