import { defineConfig } from 'tsup'
import { handlerConfig } from '../../scripts/program-config.js'

export default defineConfig(
  handlerConfig(['zod'], { entry: ['src/index.ts', 'src/library-process.ts'], external: ['usb'] }),
)
