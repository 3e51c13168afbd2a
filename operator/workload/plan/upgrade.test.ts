/** An upgrade of the operator changes no object of an existing database. */
import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { canonicalJson } from '../../../crds/index.ts'
import { noRestarts } from '../../member/pod/plan/restart-annotations.ts'
import { volumeAnnotation } from '../../member/pod/stateful-set.ts'
import { beforeRoles, reconciledDatabase } from '../../testing/reconciled-database.ts'
import { assess } from './assessment.ts'

const { owner, now, status, children, observedOf } = reconciledDatabase()
const { claim } = children
/** The template contains the claim's uid. */
const uid = 'claim-uid'
const volume = status.volume && { ...status.volume, uid }
const before = beforeRoles(children)
const template = before.statefulSet.spec?.template.metadata?.annotations
if (template !== undefined) template[volumeAnnotation] = uid
const existing = observedOf({
  status: { volume },
  children: { ...before, claim: { ...claim, metadata: { ...claim.metadata, uid } } },
})

/**
 * If a digest differs here, an upgrade writes this draft to every database. Change a digest only together with the
 * draft, never for a move or a rename in the code.
 */
test('the drafts of an existing database have the digests that they had before', () => {
  const { desired } = assess(existing, owner, now, noRestarts)
  const { service, networkPolicy, configuration, statefulSet, route, configurationDigest, newestTemplate } = desired
  const drafts = { service, networkPolicy, configuration, statefulSet, route, configurationDigest, newestTemplate }
  const digests = Object.entries({ ...drafts, claim: desired.claim }).map(([name, draft]) => [
    name,
    createHash('sha256').update(canonicalJson(draft)).digest('hex').slice(0, 16),
  ])
  expect(Object.fromEntries(digests)).toEqual({
    claim: 'f6e7b93b2192839f',
    configuration: '08c029423cdd7280',
    configurationDigest: '553ad63a1a9f3aa3',
    networkPolicy: '588a2e8f0c1948c4',
    newestTemplate: 'bbe5761148f5d44c',
    route: 'b395709b852196f9',
    service: 'bf290142517f6bde',
    statefulSet: '260dd9e14ddf57cd',
  })
})
