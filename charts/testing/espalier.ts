/** For tests of the chart `espalier`: sets of values for rendering. */
import { join } from 'node:path'

export const espalierChart = join(import.meta.dirname, '../espalier')

export const set = (...pairs: string[]) => pairs.flatMap(pair => ['--set-string', pair])
export const needed = set(
  'image.repository=registry.test/espalier',
  'postgres.images.18=registry.test/espalier-postgres:18',
)
export const authentication = set(
  'api.authentication.issuer=https://issuer.test',
  'api.authentication.audience=espalier',
)
export const jwks = set('api.authentication.jwksUrl=https://issuer.test:8443/keys')
/** The required values. */
export const minimal = [...needed, ...authentication, ...jwks]
export const ownNodes = {
  nodeAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: {
      nodeSelectorTerms: [{ matchExpressions: [{ key: 'pool', operator: 'In', values: ['databases'] }] }],
    },
  },
}
export const variants = {
  'the least': minimal,
  'those of kind': ['-f', join(import.meta.dirname, '../../e2e/kind/values.yaml')],
  everything: [
    ...minimal,
    ...set('tls.source=cert-manager', 'tls.certManager.issuerRef.name=ours', 'priorityClassName=high'),
    ...set('regions[0].name=eu', 'regions[0].domain=db.example.com', 'regions[0].gateway.host=203.0.113.7'),
    ...['--set', 'monitoring.serviceMonitor.enabled=true,monitoring.dashboard.enabled=true'],
    ...['--set', 'monitoring.databases.podMonitor.enabled=true,monitoring.databases.rules.enabled=true'],
    ...['--set', 'gateway.proxyProtocolFrom={10.0.0.0/8},imagePullSecrets[0].name=pull'],
    ...set('api.login.clientId=console', 'api.login.origins[0]=https://tokens.test'),
    ...['--set', 'networkPolicies.apiFrom[0].namespaceSelector.matchLabels.a=b'],
    ...['--set', 'postgres.imagePullSecrets[0].name=pull,postgres.priorityClassName=databases'],
    ...['--set', 'postgres.nodeSelector.pool=databases,postgres.podDisruptionBudget.enabled=true'],
    ...['--set', 'postgres.tolerations[0].key=dedicated,postgres.tolerations[0].operator=Exists'],
    ...[
      '--set',
      'postgres.topologySpreadConstraints[0].topologyKey=zone,postgres.topologySpreadConstraints[0].maxSkew=1',
    ],
    ...['--set', 'postgres.topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway'],
    ...['--set-json', `postgres.affinity=${JSON.stringify(ownNodes)}`],
  ],
  'an archive in a bucket': [
    ...minimal,
    ...set(
      'archive.store.url=s3://backups/espalier',
      'archive.store.endpoint=https://s3.test:9000',
      'archive.store.region=eu',
    ),
    ...set(
      'archive.keySecret.name=archive-keys',
      'archive.store.credentialsSecret=s3',
      'archive.store.authoritySecret=s3-ca',
    ),
    ...['--set', 'archive.enabled=true,archive.store.pathStyle=true,archive.egress[0].ipBlock.cidr=10.0.0.0/8'],
  ],
  'an archive on a claim': [
    ...minimal,
    ...set('archive.store.claim=archive', 'archive.keySecret.name=archive-keys'),
    ...['--set', 'archive.enabled=true'],
  ],
  'a public key and plain HTTP': [
    ...needed,
    ...authentication,
    ...set('api.authentication.publicKey=-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----'),
    ...['--set', 'api.tls.enabled=false,networkPolicies.enabled=false,podDisruptionBudgets.enabled=false'],
  ],
}
