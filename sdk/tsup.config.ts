import { defineConfig } from 'tsup'
import { COMMONJS } from '../scripts/program-config.js'

// The bundle contains all dependencies: @grpc/grpc-js alone would add 32 packages to each author's
// node_modules. The exception is
// @grpc/proto-loader with protobufjs: grpc-js loads it only for two services of its own, which no
// handler serves.
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
  // An author reads this code in stacks, and in a debugger.
  minify: false,
  noExternal: [/^(?!@grpc\/proto-loader$)/],
  external: ['@grpc/proto-loader'],
  dts:
    process.env.AKRI_TYPES === '1'
      ? {
          resolve: true,
          // The bundle also contains the declarations of this private package.
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
