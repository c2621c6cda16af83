// The arrows between packages (docs/architecture.md). What a package may import besides itself:
const MAY_IMPORT = {
  proto: [],
  runtime: [],
  sdk: ['proto', 'runtime'],
  'dns-sd': ['sdk'],
  'handlers/[^/]+': ['sdk', 'dns-sd', 'handlers/details-fields'],
  kube: ['runtime', 'proto'],
  api: ['runtime', 'sdk/src/handler', 'kube/src/objects'],
  agent: ['proto', 'runtime', 'sdk', 'kube', 'api'],
  standalone: ['proto', 'runtime', 'sdk', 'kube', 'api', 'agent'],
  controller: ['runtime', 'kube', 'api'],
  webhook: ['runtime', 'sdk/src/handler', 'kube', 'api'],
  // The page in the browser has rules of its own below.
  ui: ['runtime', 'kube/src/objects', 'api'],
  cli: ['runtime', 'sdk', 'handlers/[^/]+', 'kube', 'api', 'agent', 'standalone', 'ui'],
  // The templates are projects that use the SDK.
  'create-handler': ['runtime', 'sdk', 'handlers/built-in'],
  'examples/[^/]+': ['sdk'],
}
const ALL = [
  ...new Set([...Object.keys(MAY_IMPORT).map((name) => name.split('/')[0]), 'test', 'bench']),
]

/**
 * The files of agent/src without a socket, a file, a client or gRPC. Of the other rooms only the
 * named files are pure.
 */
const PURE_FILES_OF_AGENT = `^agent/src/(${[
  '(access|instances|slots)/.*',
  'discovery/(?!checkpoint).*',
  'report/(?!node-report-writer).*',
  'plugins/allocation',
  'handlers/(handler-(endpoint|registry)|isolated-output)',
  'kubelet/kubelet',
  'cluster/(cluster|object-store|pod-demand|property-references)',
  'broker-info/broker-info-plan',
  'errors|limits',
].join('|')})\\.ts$`

/** Folders of handlers with a protocol. */
const PROTOCOLS = 'ua-tcp|ws-discovery'

/** Tests and what supports them. */
const TESTS = '\\.(test|contract)\\.ts$|/src/testing/|/test-peers/'

export default {
  forbidden: [
    {
      name: 'no-cycles',
      severity: 'error',
      from: { pathNot: 'src/generated' },
      to: { circular: true },
    },
    { name: 'resolvable', severity: 'error', from: {}, to: { couldNotResolve: true } },
    ...Object.entries(MAY_IMPORT).map(([from, allowed]) => ({
      name: `arrow-from-${from.replace('/[^/]+', '')}`,
      comment: `${from} may import ${allowed.length > 0 ? allowed.join(', ') : 'no other package'}`,
      severity: 'error',
      from: { path: `^(${from})(/|$)`, pathNot: TESTS },
      // $1 is the importing package itself.
      to: {
        path: `^(${ALL.join('|')})/`,
        pathNot: `^($1${allowed.map((to) => `|${to}`).join('')})[/.]`,
      },
    })),
    {
      name: 'page-in-browser',
      comment: 'the page imports no code of the server and of other packages, but their types',
      severity: 'error',
      from: { path: '^ui/src/page/', pathNot: TESTS },
      to: {
        path: '^(?!ui/src/page/|node_modules/)',
        pathNot: '^(preact|@preact)',
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'agent-pure-files',
      comment: 'the pure files of the agent import no socket, no file, no client and no gRPC',
      severity: 'error',
      from: { path: PURE_FILES_OF_AGENT, pathNot: TESTS },
      to: {
        path: '.',
        pathNot: [
          PURE_FILES_OF_AGENT,
          '^(api|runtime|sdk/src/handler)/|@noble/hashes|^util$',
          '^kube/src/(objects|reconcile-queue)',
        ],
      },
    },
    {
      name: 'agent-program-is-the-top',
      comment: 'the rooms of the agent do not know how they are put together',
      severity: 'error',
      from: { path: '^agent/src/[^/]+/', pathNot: [TESTS, '^agent/src/program/'] },
      to: { path: '^agent/src/program/' },
    },
    {
      name: 'agent-kubernetes-client',
      comment: 'the client of Kubernetes is for the adapters of the cluster',
      severity: 'error',
      from: {
        path: '^agent/src/[^/]+/',
        pathNot: [TESTS, '^agent/src/(cluster|program)/', 'report/node-report-writer'],
      },
      to: { path: '^kube/src/', pathNot: '^kube/src/(objects|reconcile-queue)' },
    },
    {
      name: 'agent-below-standalone',
      comment: 'tests of the agent, and what they import, do not need the packages above it',
      severity: 'error',
      from: { path: '^agent/' },
      to: { path: '^(standalone|cli|controller|webhook)/', reachable: true },
    },
    {
      name: 'protocols-stand-alone',
      comment: 'a protocol imports nothing of its handler but errors, limits and its XML reader',
      severity: 'error',
      from: { path: `^handlers/([^/]+)/src/(${PROTOCOLS})/`, pathNot: TESTS },
      to: {
        path: '^handlers/',
        pathNot: '^handlers/$1/src/($2/|xml/|(errors|limits)\\.ts$)',
      },
    },
    {
      name: 'protocols-have-one-entry',
      comment: 'a handler imports index.ts of a protocol only',
      severity: 'error',
      from: { path: '^handlers/', pathNot: [TESTS, `/src/(${PROTOCOLS})/`] },
      to: { path: `/src/(${PROTOCOLS})/`, pathNot: '/index\\.ts$' },
    },
    {
      name: 'no-test-support-in-programs',
      comment: 'test/ and bench/ import all; nothing but tests imports them',
      severity: 'error',
      from: { pathNot: ['^(test|bench)/', TESTS] },
      to: { path: '^(test|bench)/' },
    },
    {
      name: 'no-test-support-of-packages-in-programs',
      comment: 'nothing but tests imports src/testing; published test support is passed on',
      severity: 'error',
      from: { pathNot: ['^(test|bench)/', TESTS, '/src/testing\\.ts$'] },
      to: { path: '/src/testing/' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '(^|/)(dist|native)/' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      conditionNames: ['akri-source', 'import', 'node', 'default', 'types'],
      exportsFields: ['exports'],
    },
  },
}
