import { defineConfig } from 'tsup'

export default defineConfig({
  entry: ['src/index.ts'],
  format: 'esm',
  target: 'node20',
  external: ['@akrijs/sdk'],
  noExternal: ['zod'],
  dts: process.env.AKRI_TYPES === '1',
})
