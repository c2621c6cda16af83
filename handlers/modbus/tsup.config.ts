import { defineConfig } from 'tsup'

export default defineConfig({
  entry: ['src/index.ts'],
  format: 'esm',
  target: 'node20',
  // Names and lines of this code are in stacks.
  minify: false,
  noExternal: ['zod'],
  dts: process.env.AKRI_TYPES === '1',
})
