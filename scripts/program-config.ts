import type { Options } from 'tsup'

/** CommonJS parts of a bundle need these at run time. */
export const COMMONJS = [
  "import { createRequire as __createRequire } from 'node:module'",
  "import { fileURLToPath as __fileURLToPath } from 'node:url'",
  "import { dirname as __pathDirname } from 'node:path'",
  'const require = __createRequire(import.meta.url)',
  'const __filename = __fileURLToPath(import.meta.url)',
  'const __dirname = __pathDirname(__filename)',
].join(';')

/**
 * What a program imports only when needed, and what the packages of `npm start` leave out: see
 * `scripts/prepare.mjs`.
 */
const ABSENT = process.env.AKRI_WITHOUT_DEV ? ['@kubernetes/client-node'] : []
const EXTERNAL = ['@grpc/proto-loader', ...ABSENT]

/**
 * Builds a program into one file, which starts faster and takes half the memory, and into further
 * files for what it imports only when needed. Handlers stay packages of their own.
 */
export function programConfig(
  options: Pick<Options, 'entry' | 'outDir' | 'minify' | 'clean'>,
): Options {
  return {
    format: 'esm',
    platform: 'node',
    target: 'node20',
    splitting: true,
    // grpc-js loads @grpc/proto-loader, with all of protobufjs, for two services that akri.js does
    // not serve.
    noExternal: [new RegExp(`^(?!@akrijs/handler-|(${EXTERNAL.join('|')})$)`)],
    external: [/^@akrijs\/handler-/, ...EXTERNAL],
    minify: false,
    dts: false,
    banner: { js: COMMONJS },
    esbuildOptions(esbuild) {
      // Less to read at each start. Names stay: they are in stacks.
      esbuild.minifyWhitespace = true
      esbuild.minifySyntax = true
      // The client for kubeconfigs needs the one of Node.js, which warns that it is deprecated.
      esbuild.alias = { punycode: 'punycode/punycode.js' }
      esbuild.conditions = [
        'akri-source',
        ...(esbuild.conditions ?? []),
        'import',
        'node',
        'default',
      ]
    },
    ...options,
  }
}

/**
 * Builds a handler.
 * @param bundled the packages that the bundle contains
 */
export function handlerConfig(
  bundled: readonly string[],
  { external = [], ...options }: Pick<Options, 'entry' | 'external' | 'banner'> = {},
): Options {
  return {
    entry: ['src/index.ts'],
    format: 'esm',
    target: 'node20',
    // Names and lines of this code are in stacks.
    minify: false,
    external: [/^@akrijs\/sdk/, ...external],
    noExternal: [...bundled],
    dts: process.env.AKRI_TYPES === '1',
    esbuildOptions(esbuild) {
      esbuild.conditions = ['akri-source', 'import', 'node', 'default']
    },
    ...options,
  }
}

/**
 * Builds a page for browsers into a few files, beside the program that serves them.
 * @param folder with `main.tsx`, `public` and `tsconfig.json`
 */
export function pageConfig(folder: string, outDir: string): Options {
  return {
    entry: { page: `${folder}/main.tsx` },
    outDir,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    splitting: true,
    noExternal: [/./],
    minify: true,
    dts: false,
    tsconfig: `${folder}/tsconfig.json`,
    publicDir: `${folder}/public`,
  }
}
