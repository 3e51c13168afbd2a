/** Whether Kubernetes Secrets with connection details exist: in requests, in responses, and as stored. */
import { z } from 'zod'
import type { ManagedDatabaseSpec } from '../../crds/index.ts'
import { both } from '../schemas/components.ts'

const description =
  '`true` creates the Kubernetes Secrets NAME-app, NAME-admin and NAME-app-read-only in the namespace of the account, each with the address and the password of a role. Every client that may read Secrets there can then read the passwords.'
const shape = z
  .strictObject({ secrets: z.boolean().describe(description) })
  .meta({ description: 'How clients inside the cluster get connection details.', example: { secrets: true } })

const { taken, given } = both('Credentials', shape, shape)
export const credentialsInput = taken
export const credentialsShape = given

type Stored = ManagedDatabaseSpec['credentials']

/** Returns the spec's field after this input; undefined if no Secrets exist. */
export function storedCredentials(current: Stored, input: z.output<typeof shape> | undefined): Stored {
  if (input === undefined) return current
  return input.secrets ? { secrets: true } : undefined
}

/** The API returns this field only if the Secrets are enabled. */
export const renderCredentials = ({ credentials }: Pick<ManagedDatabaseSpec, 'credentials'>) =>
  credentials?.secrets === true ? { secrets: true } : undefined
