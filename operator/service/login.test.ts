/** The roles that Postgres is queried for. */
import { expect, test } from 'vitest'
import { childNames, serviceConfig } from '../../crds/index.ts'
import { loginOf } from './login.ts'

test('an invalid role name is in no query', () => {
  const owner = { kind: 'ManagedDatabase', id: '01a21acf-2990-7f80-898c-04cc74825e2d', namespace: 'n', name: 'shop' }
  const secret = childNames.serviceSecret(owner.id, '0123abcd')
  const objects = {
    ...{ workloads: [], configurations: [], addresses: {}, networkPolicies: {}, disruptionBudgets: {} },
    ...{ minted: [{ metadata: { name: secret, uid: 'u' } }], keys: [], routes: [] },
  }
  const config = (dbAnonRole: string) =>
    serviceConfig.parse({ serviceType: 'rest', serviceId: '0123abcd', rest: { dbSchemas: 'public', dbAnonRole } })
  const rolesOf = (role: string) =>
    loginOf(owner as Parameters<typeof loginOf>[0], [config(role)], objects as unknown as Parameters<typeof loginOf>[2])
      ?.anonymousRoles
  expect(rolesOf('web_anon')).toEqual(['web_anon'])
  expect(rolesOf('\0web_anon')).toEqual([])
})
