import { expect, test } from 'vitest'
import { ClusterError, type ClusterErrorReason } from '../cluster/index.ts'
import { toApiError } from './errors.ts'

const what = 'manageddatabases.espalier.dev "shop" is forbidden'

test.each<[ClusterErrorReason, string, number, string]>([
  ['Forbidden', `${what}: exceeded quota: databases, requested: count/x=1, used: count/x=3`, 403, 'quota'],
  [
    'Forbidden',
    `${what}: exceeded quota: espalier-limits, requested: count/manageddatabases.espalier.dev=1, used: count/manageddatabases.espalier.dev=2k, limited: count/manageddatabases.espalier.dev=2k`,
    403,
    'the account has reached its limit of 2000 databases',
  ],
  ['Forbidden', `${what}: unable to create new content in namespace a because it is being terminated`, 503, 'removed'],
  ['Forbidden', `${what}: User "espalier-api" cannot create resource`, 500, 'internal'],
  ['Unavailable', 'connect ECONNREFUSED 10.96.0.1:443', 503, 'the cluster does not respond'],
  ['Unavailable', 'the disk that holds the store is full; nothing was written', 503, 'is full: delete databases'],
  ['Unavailable', 'etcdserver: mvcc: database space exceeded', 503, 'is full: delete databases'],
  ['Conflict', 'the object has been modified', 409, 'at the same time'],
  ['Invalid', 'spec.secret: Invalid value', 500, 'internal'],
])("%s of the cluster (%s) becomes %i, without the cluster's message", (reason, message, status, words) => {
  const refusal = toApiError(new ClusterError(reason, message))
  expect(refusal.body).toEqual({ code: status, message: expect.stringContaining(words) })
  expect(refusal.message).not.toMatch(/espalier\.dev|namespace|10\.96/)
})
