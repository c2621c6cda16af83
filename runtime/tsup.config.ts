import { defineConfig } from 'tsup'

// Declarations, which the SDK's build bundles. The code itself is bundled from its sources.
export default defineConfig({
  entry: {
    index: 'src/index.ts',
    'node-version': 'src/program/node-version.ts',
    program: 'src/program/index.ts',
    http: 'src/http/http-server.ts',
    testing: 'src/testing/index.ts',
  },
  format: 'esm',
  target: 'node20',
  dts: { only: true },
})
