// The arrows between packages (docs/architecture.md). What a package may import besides itself:
const MAY_IMPORT = {
  proto: [],
  sdk: ['proto'],
  'handlers/[^/]+': ['sdk'],
  kube: [],
  agent: ['proto', 'sdk', 'kube'],
  controller: ['sdk', 'kube'],
  webhook: ['sdk', 'kube'],
  cli: ['proto', 'sdk', 'handlers/[^/]+', 'kube', 'agent', 'controller', 'webhook'],
  'examples/[^/]+': ['sdk'],
}
const ALL = ['proto', 'sdk', 'handlers', 'kube', 'agent', 'controller', 'webhook', 'cli', 'examples', 'test', 'bench']

export default {
  forbidden: [
    {
      name: 'no-cycles',
      severity: 'error',
      from: { pathNot: 'src/generated' },
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    { name: 'resolvable', severity: 'error', from: {}, to: { couldNotResolve: true } },
    ...Object.entries(MAY_IMPORT).map(([from, allowed]) => ({
      name: `arrow-from-${from.replace('/[^/]+', '')}`,
      comment: `${from} may import ${allowed.length > 0 ? allowed.join(', ') : 'no other package'}`,
      severity: 'error',
      from: { path: `^(${from})/`, pathNot: '\\.(test|contract)\\.ts$' },
      // $1 is the importing package itself.
      to: { path: `^(${ALL.join('|')})/`, pathNot: `^($1${allowed.map((to) => `|${to}`).join('')})/` },
    })),
    {
      name: 'no-test-support-in-programs',
      comment: 'test/ and bench/ import all; nothing but tests imports them',
      severity: 'error',
      from: { pathNot: ['^(test|bench)/', '\\.(test|contract)\\.ts$'] },
      to: { path: '^(test|bench)/' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '(^|/)(dist|native)/' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { conditionNames: ['akri-source', 'import', 'node', 'default', 'types'], exportsFields: ['exports'] },
  },
}
