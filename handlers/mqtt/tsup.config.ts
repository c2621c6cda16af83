import path from 'node:path'
import { defineConfig } from 'tsup'
import { COMMONJS, handlerConfig } from '../../scripts/program-config.js'

const handler = handlerConfig(['zod', 'mqtt', '@bufbuild/protobuf'])
const unused = path.join(import.meta.dirname, 'bundled/unused.cjs')

export default defineConfig({
  ...handler,
  banner: { js: COMMONJS },
  esbuildOptions(options, context) {
    handler.esbuildOptions?.(options, context)
    options.alias = {
      // What they copy or replace for browsers is in Node.js.
      'readable-stream': 'node:stream',
      'worker-timers': 'node:timers',
      // Connections over WebSocket and SOCKS: the handler makes its own sockets.
      ...{ ws: unused, socks: unused },
      // With DEBUG=*, it would write passwords.
      debug: unused,
    }
  },
})
