import { defineConfig } from 'tsup'
import { handlerConfig } from '../../scripts/program-config.js'

export default defineConfig(handlerConfig(['zod']))
