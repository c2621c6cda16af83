import { defineConfig } from 'tsup'
import { handlerConfig } from '../../scripts/program-config.js'

// net-snmp is CommonJS.
const require =
  "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url)"

export default defineConfig(handlerConfig(['zod', 'net-snmp'], { banner: { js: require } }))
