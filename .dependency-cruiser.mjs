// The arrows between packages (docs/architecture.md). What a package may import besides itself:
const MAY_IMPORT = {
  proto: [],
  runtime: [],
  sdk: ['proto', 'runtime'],
  'handlers/[^/]+': ['sdk'],
  kube: ['runtime'],
  api: ['runtime', 'kube/src/objects'],
  agent: ['proto', 'runtime', 'sdk', 'kube', 'api'],
  standalone: ['proto', 'runtime', 'sdk', 'kube', 'api', 'agent'],
  controller: ['runtime', 'kube', 'api'],
  webhook: ['runtime', 'kube', 'api'],
  cli: ['runtime', 'sdk', 'handlers/[^/]+', 'kube', 'api', 'agent', 'standalone'],
  // The templates are projects that use the SDK.
  'create-handler': ['runtime', 'sdk'],
  'examples/[^/]+': ['sdk'],
}
const ALL = [
  ...new Set([...Object.keys(MAY_IMPORT).map((name) => name.split('/')[0]), 'test', 'bench']),
]

/**
 * What a folder of agent/src may import besides itself, errors.ts and limits.ts; type-only imports
 * count too.
 */
const AGENT_MAY_IMPORT = {
  core: ['agent/src/ports', 'api', 'runtime', 'kube/src/(objects|reconcile-queue)'],
  ports: ['agent/src/core', 'api', 'runtime', 'kube/src/objects'],
  node: ['agent/src/(core|ports)', 'proto', 'sdk', 'api', 'runtime', 'kube/src/objects'],
  cluster: ['agent/src/(core|ports)', 'api', 'runtime', 'kube'],
  'broker-info': ['agent/src/(core|ports)', 'api', 'runtime', 'kube/src/(objects|reconcile-queue)'],
  program: ['agent/src/(core|ports|node|cluster|broker-info)', 'api', 'runtime', 'kube'],
}

/** Tests and what supports them. */
const TESTS = '\\.(test|contract)\\.ts$|/src/testing/'

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
      from: { path: `^(${from})/`, pathNot: TESTS },
      // $1 is the importing package itself.
      to: {
        path: `^(${ALL.join('|')})/`,
        pathNot: `^($1${allowed.map((to) => `|${to}`).join('')})[/.]`,
      },
    })),
    ...Object.entries(AGENT_MAY_IMPORT).map(([from, allowed]) => ({
      name: `arrow-from-agent-${from}`,
      comment: `agent/src/${from} may import ${allowed.join(', ')}`,
      severity: 'error',
      from: { path: `^agent/src/${from}/`, pathNot: TESTS },
      to: {
        path: `^(${ALL.join('|')})/`,
        pathNot: `^(agent/src/(${from}|(errors|limits)\\.ts)|${allowed.join('|')})(/|\\.|$)`,
      },
    })),
    {
      name: 'agent-core-is-pure',
      comment:
        'agent/src/core and agent/src/ports import no socket, no file, no client and no gRPC',
      severity: 'error',
      from: { path: '^agent/src/(core|ports)/', pathNot: TESTS },
      to: { path: '.', pathNot: '^(agent|api|runtime|kube)/|@noble/hashes|^util$' },
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
