import { defineConfig } from 'tsup'

export default defineConfig({ entry: ['src/http-sensor.ts'], format: 'esm', target: 'node20' })
