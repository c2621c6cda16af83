import { defineConfig } from 'tsup'

export default defineConfig({
  entry: ['src/index.ts'],
  format: 'esm',
  target: 'node20',
  // Names and lines of this code are in stacks.
  minify: false,
  external: [/^@akrijs\/sdk/],
  noExternal: ['@akrijs/dns-sd', 'zod'],
  dts: process.env.AKRI_TYPES === '1',
  esbuildOptions(options) {
    options.conditions = ['akri-source', 'import', 'node', 'default']
  },
})
