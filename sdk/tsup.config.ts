import { defineConfig } from 'tsup'
import { COMMONJS } from '../scripts/program-config.js'

// Everything is bundled: @grpc/grpc-js alone would bring 32 packages into each author's node_modules. But for @grpc/proto-loader,
// with all of protobufjs: grpc-js loads it for two services of its own that nobody here serves.
export default defineConfig({
  entry: {
    index: 'src/index.ts',
    network: 'src/network/index.ts',
    testing: 'src/testing.ts',
    host: 'src/host.ts',
    'akri-handler': 'src/akri-handler.ts',
    'stdin-watch': 'src/stdin-watch.ts',
  },
  format: 'esm',
  platform: 'node',
  target: 'node20',
  splitting: true,
  minify: true,
  noExternal: [/^(?!@grpc\/proto-loader$)/],
  external: ['@grpc/proto-loader'],
  dts:
    process.env.AKRI_TYPES === '1'
      ? {
          resolve: true,
          // The declarations of this private package are bundled as well.
          compilerOptions: {
            paths: {
              '@akrijs/runtime': ['../runtime/dist/index.d.ts'],
              '@akrijs/runtime/*': ['../runtime/dist/*.d.ts'],
            },
          },
        }
      : false,
  banner: { js: COMMONJS },
  esbuildOptions(options) {
    options.conditions = ['akri-source', ...(options.conditions ?? []), 'import', 'node', 'default']
  },
})
