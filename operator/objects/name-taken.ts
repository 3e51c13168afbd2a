/** NameTakenError reports that an object of another owner has the name of a child. */
export class NameTakenError extends Error {
  override readonly name = 'NameTakenError'
  constructor(kind: string, { namespace, name }: { namespace?: string; name: string }) {
    super(
      `${kind} ${namespace}/${name} belongs to someone else: delete it so that the operator can create its own. Check what it contains before you delete it`,
    )
  }
}
