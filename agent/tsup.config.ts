import { defineConfig } from 'tsup'
import { programConfig } from '../scripts/program-config.js'

// The program, in one file and what it loads only where it needs it; and, for publishing, the library with its types.
export default defineConfig([
  programConfig({ entry: ['src/akri-agent.ts'] }),
  ...(process.env.AKRI_TYPES === '1'
    ? [
        {
          entry: ['src/index.ts', 'src/standalone.ts', 'src/testing.ts'],
          format: 'esm' as const,
          target: 'node20',
          dts: true,
        },
      ]
    : []),
])
