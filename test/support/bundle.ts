import { type BuildOptions, build } from 'esbuild'

/** Bundles sources of this clone, so that a process of its own can run them. */
export function bundle(options: BuildOptions) {
  return build({
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    conditions: ['akri-source'],
    // CommonJS code in the bundle requires the modules of Node at run time.
    banner: {
      js:
        "import { createRequire as requireOf } from 'node:module'; " +
        'const require = requireOf(import.meta.url)',
    },
    logLevel: 'error',
    ...options,
  })
}
