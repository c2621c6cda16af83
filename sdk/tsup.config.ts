import { defineConfig } from 'tsup'
import { COMMONJS } from '../scripts/program-config.js'

// Everything is bundled: @grpc/grpc-js alone would bring 32 packages into each author's node_modules.
export default defineConfig({
  entry: ['src/index.ts', 'src/testing.ts', 'src/host.ts', 'src/akri-handler.ts', 'src/stdin-watch.ts'],
  format: 'esm',
  platform: 'node',
  target: 'node20',
  splitting: true,
  minifySyntax: true,
  noExternal: [/.*/],
  dts: process.env.AKRI_TYPES === '1' ? { resolve: true } : false,
  banner: { js: COMMONJS },
  esbuildOptions(options) {
    options.conditions = ['akri-source', ...(options.conditions ?? []), 'import', 'node', 'default']
  },
})
