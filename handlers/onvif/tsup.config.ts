import { defineConfig } from 'tsup'

export default defineConfig({
  entry: { index: 'src/index.ts', testing: 'src/testing/index.ts' },
  format: 'esm',
  target: 'node20',
  minify: true,
  noExternal: ['zod', 'fast-xml-parser'],
  dts: process.env.AKRI_TYPES === '1',
})
