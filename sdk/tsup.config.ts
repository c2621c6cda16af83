import { defineConfig } from 'tsup'

// Everything is bundled: @grpc/grpc-js alone would bring 32 packages into each author's node_modules.
export default defineConfig({
  entry: ['src/index.ts', 'src/testing.ts', 'src/host.ts', 'src/akri-handler.ts'],
  format: 'esm',
  platform: 'node',
  target: 'node20',
  splitting: true,
  minifySyntax: true,
  noExternal: [/.*/],
  dts: process.env.AKRI_TYPES === '1' ? { resolve: true } : false,
  // CommonJS packages inside of an ES module still ask for these.
  banner: {
    js: [
      "import { createRequire as __createRequire } from 'node:module'",
      "import { fileURLToPath as __fileURLToPath } from 'node:url'",
      "import { dirname as __pathDirname } from 'node:path'",
      'const require = __createRequire(import.meta.url)',
      'const __filename = __fileURLToPath(import.meta.url)',
      'const __dirname = __pathDirname(__filename)',
    ].join(';'),
  },
  esbuildOptions(options) {
    options.conditions = ['akri-source', ...(options.conditions ?? []), 'import', 'node', 'default']
  },
})
