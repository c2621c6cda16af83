import { defineConfig } from 'tsup'

// One file: it starts faster and takes half the memory. Handlers stay packages of their own, loaded when they are needed.
export default defineConfig({
  entry: ['src/akri.ts'],
  format: 'esm',
  platform: 'node',
  target: 'node20',
  splitting: true,
  noExternal: [/^(?!@akrijs\/handler-)/],
  external: [/^@akrijs\/handler-/],
  dts: false,
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
