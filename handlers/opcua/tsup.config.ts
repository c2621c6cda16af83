import { defineConfig } from 'tsup'

export default defineConfig({
  entry: ['src/index.ts'],
  format: 'esm',
  target: 'node20',
  minify: true,
  external: [/^@akrijs\/sdk/],
  noExternal: ['zod'],
  dts: process.env.AKRI_TYPES === '1',
})
