/** Executes one action of the plan of services. */
import { childNames, labels } from '../../crds/index.ts'
import { type ChildExecutor, type ChildPass, createChild, identifiedOwner } from '../children/act.ts'
import type { InstallationKeys } from '../keys.ts'
import type { OwnServiceAction } from './actions.ts'
import type { ServiceFiles } from './observe.ts'
import { configurationDraft, mintedDraft } from './secrets.ts'

export type ServicePass = ChildPass & {
  keys: InstallationKeys
  /** The content of the Secrets that pods mount. */
  serviceFiles: ServiceFiles
}

export async function performService(
  executor: ChildExecutor,
  pass: ServicePass,
  action: OwnServiceAction,
): Promise<void> {
  switch (action.do) {
    case 'mint-service-secret': {
      const { sealingKey } = pass.keys
      if (sealingKey === undefined) return
      return createChild(executor, pass, 'Secret', mintedDraft(identifiedOwner(pass), action, sealingKey))
    }
    case 'create-service-configuration': {
      const files = pass.serviceFiles[action.type]
      if (files === undefined) return
      return createChild(executor, pass, 'Secret', configurationDraft(identifiedOwner(pass), action, await files()))
    }
    case 'delete-service-workload':
      return deleteWorkload(executor, pass, action)
    case 'delete-service-configuration':
      return deleteConfiguration(executor, action)
  }
}

/** Reads the Service from the cluster: a cache may not have a selector yet that names this workload. */
async function deleteWorkload(
  { cluster }: ChildExecutor,
  pass: ChildPass,
  { type, digest, name, namespace, uid }: Extract<OwnServiceAction, { do: 'delete-service-workload' }>,
): Promise<void> {
  const { id } = identifiedOwner(pass)
  const service = await cluster.get('Service', { namespace, name: childNames.serviceAddress(id, type) })
  if (service?.spec?.selector?.[labels.configuration] === digest) return
  await cluster.delete('Deployment', { namespace, name }, { uid })
}

/** Reads the Deployment from the cluster: its pods could not start without the Secret. */
async function deleteConfiguration(
  { cluster }: ChildExecutor,
  { name, namespace, uid }: Extract<OwnServiceAction, { do: 'delete-service-configuration' }>,
): Promise<void> {
  if ((await cluster.get('Deployment', { namespace, name })) !== undefined) return
  await cluster.delete('Secret', { namespace, name }, { uid })
}
