/** A rule of RBAC. */
export interface Rule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly resourceNames?: readonly string[]
  readonly verbs: readonly string[]
  /** `own`: that of the program. @default all */
  readonly namespace?: 'own' | 'kube-node-lease'
}

/** The programs of a cluster, by the value of their label `app.kubernetes.io/name`. */
export const PROGRAMS = ['akri-agent', 'akri-controller', 'akri-webhook'] as const
export type Program = (typeof PROGRAMS)[number]

const ALL_VERBS = ['get', 'list', 'watch', 'create', 'patch', 'delete']
const EVENTS: Rule = { apiGroups: [''], resources: ['events'], verbs: ['create', 'patch'] }

/** The rights that the manifests and the chart give to the accounts of the programs. */
export const RIGHTS: Readonly<Record<Program, readonly Rule[]>> = {
  'akri-agent': [
    { apiGroups: ['akri.sh'], resources: ['configurations'], verbs: ['get', 'list', 'watch'] },
    { apiGroups: ['akri.sh'], resources: ['nodereports'], verbs: ['get', 'create', 'patch'] },
    { apiGroups: ['akri.sh'], resources: ['instances'], verbs: ALL_VERBS },
    { apiGroups: ['akri.sh'], resources: ['instances/status'], verbs: ['patch'] },
    { apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch'] },
    { apiGroups: [''], resources: ['nodes'], verbs: ['get'] },
    EVENTS,
  ],
  'akri-controller': [
    {
      apiGroups: ['akri.sh'],
      resources: ['configurations'],
      verbs: ['get', 'list', 'watch', 'patch'],
    },
    {
      apiGroups: ['akri.sh'],
      resources: ['instances'],
      verbs: ['get', 'list', 'watch', 'patch', 'delete'],
    },
    {
      apiGroups: ['akri.sh'],
      resources: ['configurations/status', 'instances/status'],
      verbs: ['patch'],
    },
    { apiGroups: ['akri.sh'], resources: ['nodereports'], verbs: ['list', 'watch', 'delete'] },
    {
      apiGroups: ['akri.sh'],
      resources: ['configurations/finalizers', 'instances/finalizers'],
      verbs: ['update'],
    },
    { apiGroups: [''], resources: ['pods', 'services'], verbs: ALL_VERBS },
    { apiGroups: ['batch'], resources: ['jobs'], verbs: ALL_VERBS },
    { apiGroups: ['apps'], resources: ['deployments'], verbs: ALL_VERBS },
    { apiGroups: [''], resources: ['nodes'], verbs: ['get', 'list', 'watch'] },
    EVENTS,
    {
      apiGroups: ['coordination.k8s.io'],
      resources: ['leases'],
      verbs: ['create'],
      namespace: 'own',
    },
    {
      apiGroups: ['coordination.k8s.io'],
      resources: ['leases'],
      resourceNames: ['akri-controller'],
      verbs: ['get', 'list', 'watch', 'update'],
      namespace: 'own',
    },
    {
      apiGroups: ['coordination.k8s.io'],
      resources: ['leases'],
      verbs: ['get'],
      namespace: 'kube-node-lease',
    },
  ],
  'akri-webhook': [
    { apiGroups: ['akri.sh'], resources: ['configurations'], verbs: ['list', 'watch'] },
    { apiGroups: ['akri.sh'], resources: ['instances'], verbs: ['list'] },
  ],
}
