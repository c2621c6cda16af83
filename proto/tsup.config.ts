import { defineConfig } from 'tsup'

export default defineConfig({
  entry: {
    discovery: 'src/generated/discovery.ts',
    deviceplugin: 'src/generated/deviceplugin.ts',
    podresources: 'src/generated/podresources.ts',
    runtime: 'src/generated/runtime.ts',
  },
  format: 'esm',
  target: 'node20',
  dts: process.env.AKRI_TYPES === '1',
})
