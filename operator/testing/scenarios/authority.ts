/** The installation's certificate authority is replaced. */
import type { Cluster } from '../../../cluster/index.ts'
import { childNames, systemNamespace } from '../../../crds/index.ts'
import {
  authoritySecret,
  authorityStateSecret,
  nextAuthoritySecret,
  rotateAnnotation,
} from '../../../sealing/credentials.ts'
import { readState } from '../../authority/state.ts'
import { testNamespace } from '../installation.ts'
import { narrow } from './requests.ts'
import type { Scenario } from './scenario.ts'

const secretOf = (cluster: Cluster, name: string) => cluster.get('Secret', { namespace: systemNamespace, name })

export const authorityScenarios: Scenario[] = [
  {
    name: 'authority',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    configuration: { authority: { announceMs: 0, settleMs: 0, lookMs: 5 } },
    act: async cluster => {
      const secret = await secretOf(cluster, authoritySecret)
      if (secret === undefined) throw new Error('there is no authority')
      await cluster.replace('Secret', {
        ...secret,
        metadata: { ...secret.metadata, annotations: { [rotateAnnotation]: 'true' } },
      })
    },
    isDone: async (cluster, { id }) => {
      const [given, next, state, tls] = await Promise.all([
        secretOf(cluster, authoritySecret),
        secretOf(cluster, nextAuthoritySecret),
        secretOf(cluster, authorityStateSecret),
        cluster.get('Secret', { namespace: testNamespace, name: childNames.tls(id) }),
      ])
      const [certificate, trusted] = [given?.data?.['tls.crt'], tls?.data?.['ca.crt']]
      const isAtRest = readState(state)?.authorities.length === 1 && given?.immutable === true && next === undefined
      return isAtRest && certificate !== undefined && certificate === trusted
    },
  },
]
