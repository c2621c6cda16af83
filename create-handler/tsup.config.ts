import { cp } from 'node:fs/promises'
import path from 'node:path'
import { defineConfig } from 'tsup'
import { programConfig } from '../scripts/program-config.js'

const EXAMPLES = path.join(import.meta.dirname, '../examples/handlers')

export default defineConfig({
  ...programConfig({ entry: ['src/create-handler.ts'] }),
  // What `--example` starts from.
  onSuccess: () => cp(EXAMPLES, 'dist/examples', { recursive: true }),
})
