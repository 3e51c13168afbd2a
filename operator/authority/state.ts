/**
 * The installation's certificate authorities. There is one, except during a replacement: then servers and clients trust
 * the old and the new one. The state is in a Secret that only the operator writes. So it survives a crash at any point,
 * and a key that is still needed is never only in memory.
 */
import { z } from 'zod'
import type { Draft, Secret } from '../../cluster/index.ts'
import { labels, managedByEspalier, systemNamespace } from '../../crds/index.ts'
import { authorityStateSecret } from '../../sealing/credentials.ts'
import { digestOf } from '../objects/up-to-date.ts'
import type { Authority } from '../pki/index.ts'
import type { Trust } from '../pki/trust.ts'

/**
 * - `signs`: it issues certificates. There is exactly one such authority.
 * - `trusted`: it is also in the published bundle of servers and clients.
 * - `retired`: it is no longer in the bundle. The operator uses it to connect to servers that have not loaded this step
 *   yet.
 */
const member = z.strictObject({ cert: z.string(), key: z.string(), use: z.enum(['signs', 'trusted', 'retired']) })
/** Far below the size limit of a Secret. More requested authorities must wait. */
export const mostAuthorities = 8
const authorityState = z
  .strictObject({ authorities: z.array(member).min(1).max(mostAuthorities), changedAt: z.iso.datetime() })
  .refine(({ authorities }) => authorities.filter(({ use }) => use === 'signs').length === 1, 'one signs')

export type Member = z.output<typeof member>
export type AuthorityState = z.output<typeof authorityState>

export const signingOf = ({ authorities }: AuthorityState): Member => {
  const signing = authorities.find(({ use }) => use === 'signs')
  if (signing === undefined) throw new TypeError('one signs')
  return signing
}

const stateKey = 'state.json'

/** The state in a Secret. Undefined if there is none, or if it is unreadable. */
export function readState(secret: Secret | undefined): AuthorityState | undefined {
  try {
    const text = Buffer.from(secret?.data?.[stateKey] ?? '', 'base64').toString('utf8')
    const parsed = authorityState.safeParse(JSON.parse(text))
    return parsed.success ? parsed.data : undefined
  } catch {
    return undefined
  }
}

/** Annotation of the state's Secret, for users: the current step and what it waits for. */
export const progressAnnotation = 'espalier.dev/progress'

export function stateDraft(state: AuthorityState, progress: string): Draft<'Secret'> {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'Opaque',
    metadata: {
      name: authorityStateSecret,
      namespace: systemNamespace,
      labels: { [labels.managedBy]: managedByEspalier },
      annotations: { [progressAnnotation]: progress },
    },
    data: { [stateKey]: Buffer.from(JSON.stringify(state)).toString('base64') },
  }
}

/** `besides`: known authorities that are not in the state yet, or no longer. */
export function trustOf({ authorities }: AuthorityState, besides: readonly Authority[]): Trust {
  const inOrder = [...authorities].sort((left, right) => order[left.use] - order[right.use])
  const [signing] = inOrder
  if (signing === undefined) throw new TypeError('one signs')
  const bundle = inOrder
    .filter(({ use }) => use !== 'retired')
    .map(({ cert }) => cert)
    .join('')
  const known = [...inOrder, ...besides]
    .filter(({ cert }, index, all) => all.findIndex(other => other.cert === cert) === index)
    .map(({ cert, key }) => ({ cert, key }))
  return {
    cert: signing.cert,
    key: signing.key,
    bundle,
    known,
    accepted: known.map(({ cert }) => cert).join(''),
    digest: digestOf([signing.cert, bundle]),
    isChanging: authorities.length > 1,
  }
}

const order = { signs: 0, trusted: 1, retired: 2 } as const

/** The trust in only one authority, as before a state was written. */
export const trustIn = (authority: Authority): Trust =>
  trustOf({ authorities: [{ ...authority, use: 'signs' }], changedAt: '' }, [])
