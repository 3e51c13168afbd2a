/**
 * The Secrets of services that the operator creates and never changes: sealed generated credentials, and the
 * configuration that the pods mount.
 */
import { randomBytes } from 'node:crypto'
import type { Draft } from '../../cluster/index.ts'
import { childNames, labels } from '../../crds/index.ts'
import { sealedData } from '../../sealing/service-keys.ts'
import { type Component, childMetadata, type Owner } from '../objects/ownership.ts'
import type { NamedWorkload } from './names.ts'
import { serviceComponent } from './names.ts'
import type { MintedSecret } from './observed.ts'

const tokenBytes = 32

/** 256 bits, base64url. */
const mintValue = (): string => randomBytes(tokenBytes).toString('base64url')

export function mintedDraft(owner: Owner, { name, field }: MintedSecret, sealingKey: Uint8Array): Draft<'Secret'> {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'Opaque',
    metadata: childMetadata(owner, name, 'service-token' satisfies Component),
    data: sealedData(sealingKey, { namespace: owner.namespace, name }, { [field]: mintValue() }),
  }
}

/** `files`: by file name. */
export function configurationDraft(
  owner: Owner,
  { type, digest }: NamedWorkload,
  files: Readonly<Record<string, string>>,
): Draft<'Secret'> {
  const metadata = childMetadata(owner, childNames.serviceWorkload(owner.id, type, digest), serviceComponent)
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'Opaque',
    immutable: true,
    metadata: {
      ...metadata,
      labels: { ...metadata.labels, [labels.service]: type, [labels.configuration]: digest },
    },
    data: Object.fromEntries(Object.entries(files).map(([name, text]) => [name, Buffer.from(text).toString('base64')])),
  }
}
