from kazoo.client import KazooClient


def test_node_goes_with_its_session(zktest):
    client = KazooClient(hosts=zktest.address)
    client.start()
    client.create("/worker", ephemeral=True)
    zktest.expire("all")
    assert not client.retry(client.exists, "/worker")
    client.stop()
