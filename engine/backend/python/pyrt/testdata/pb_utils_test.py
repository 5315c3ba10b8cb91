"""What triton_python_backend_utils does without a server behind it. Run by pyrt_test.go, a class at a time."""

import gc
import json
import os
import queue
import random
import struct
import sys
import time
import unittest
import weakref

import numpy as np

sys.path.insert(0, ".")
import _nereid_arena  # noqa: E402
import _nereid_codec  # noqa: E402
import _nereid_dlpack  # noqa: E402
import _nereid_framework  # noqa: E402
import _nereid_series  # noqa: E402
import triton_python_backend_utils as pb  # noqa: E402


def config(**members):
    made = {"name": "m", "max_batch_size": 0, "input": [], "output": []}
    made.update(members)
    return pb.ModelConfig(json.dumps(made))


class Lookups(unittest.TestCase):
    def test_tensors(self):
        a, b = pb.Tensor("A", np.zeros(1)), pb.Tensor("B", np.zeros(1))
        request = pb.InferenceRequest(model_name="m", inputs=[a, b], requested_output_names=["O"])
        response = pb.InferenceResponse([a, b])
        self.assertIs(pb.get_input_tensor_by_name(request, "B"), b)
        self.assertIsNone(pb.get_input_tensor_by_name(request, "C"))
        self.assertIs(pb.get_output_tensor_by_name(response, "A"), a)
        self.assertIsNone(pb.get_output_tensor_by_name(response, "C"))

    def test_configuration(self):
        entries = {"input": [{"name": "I", "dims": [1]}], "output": [{"name": "O", "dims": [2]}]}
        self.assertEqual(pb.get_input_config_by_name(entries, "I")["dims"], [1])
        self.assertEqual(pb.get_output_config_by_name(entries, "O")["dims"], [2])
        self.assertIsNone(pb.get_input_config_by_name(entries, "O"))
        self.assertIsNone(pb.get_output_config_by_name({}, "O"))
        self.assertFalse(pb.using_decoupled_model_transaction_policy(entries))
        self.assertTrue(pb.using_decoupled_model_transaction_policy({"model_transaction_policy": {"decoupled": True}}))


class Types(unittest.TestCase):
    def test_both_ways(self):
        for number in range(1, 14):
            self.assertEqual(pb.numpy_to_triton_type(pb.triton_to_numpy_type(number)), number)
        self.assertIsNone(pb.triton_to_numpy_type(14))
        self.assertIsNone(pb.numpy_to_triton_type(np.complex64))
        self.assertEqual(pb.numpy_to_triton_type(np.bytes_), 13)

    def test_texts(self):
        self.assertEqual(pb.triton_string_to_numpy("TYPE_FP16"), np.float16)
        self.assertEqual(pb.triton_string_to_numpy("TYPE_STRING"), np.object_)
        self.assertEqual(pb.triton_string_to_numpy("TYPE_BOOL"), bool)
        with self.assertRaises(KeyError):
            pb.triton_string_to_numpy("FP16")


class Bytes(unittest.TestCase):
    def test_round_trip(self):
        elements = np.array([[b"a\0b", "grün"], [b"", 7]], dtype=object)
        packed = pb.serialize_byte_tensor(elements)
        self.assertEqual(packed[:7], b"\3\0\0\0a\0b")
        self.assertEqual(pb.deserialize_bytes_tensor(packed).tolist(), [b"a\0b", "grün".encode(), b"", b"7"])

    def test_other_arrays(self):
        self.assertEqual(pb.serialize_byte_tensor(np.array([], dtype=object)), ())
        self.assertIsNone(pb.serialize_byte_tensor(np.zeros(2)))
        self.assertEqual(pb.serialize_byte_tensor(np.array([b"xy"])), b"\2\0\0\0xy")

    def test_cut_off(self):
        for cut in (b"\1\0", b"\5\0\0\0abc"):
            with self.assertRaises(pb.TritonModelException):
                pb.deserialize_bytes_tensor(cut)


class ModelConfig(unittest.TestCase):
    def test_completes(self):
        made = config()
        made.set_max_batch_size(8)
        made.set_dynamic_batching()
        made.add_input({"name": "I", "data_type": "TYPE_FP32", "dims": [4], "optional": True})
        made.add_output({"name": "O", "data_type": "TYPE_INT8", "dims": [-1]})
        made.set_model_transaction_policy({"decoupled": True})
        entries = made.as_dict()
        self.assertEqual(entries["max_batch_size"], 8)
        self.assertEqual(entries["dynamic_batching"], {})
        self.assertEqual(entries["input"], [{"name": "I", "data_type": "TYPE_FP32", "dims": [4], "optional": True}])
        self.assertEqual(entries["output"], [{"name": "O", "data_type": "TYPE_INT8", "dims": [-1]}])
        self.assertEqual(entries["model_transaction_policy"], {"decoupled": True})

    def test_keeps_what_agrees(self):
        present = {"name": "I", "data_type": "TYPE_FP32", "dims": [4]}
        made = config(input=[present], dynamic_batching={"preferred_batch_size": [4]})
        made.set_dynamic_batching()
        made.add_input(dict(present))
        self.assertEqual(made.as_dict()["input"], [present])
        self.assertEqual(made.as_dict()["dynamic_batching"], {"preferred_batch_size": [4]})

    def test_fills_half_an_entry(self):
        made = config(input=[{"name": "I", "data_type": "TYPE_INVALID", "dims": []}])
        made.add_input({"name": "I", "data_type": "TYPE_FP32", "dims": [4]})
        self.assertEqual(made.as_dict()["input"], [{"name": "I", "data_type": "TYPE_FP32", "dims": [4]}])

    def test_contradictions(self):
        present = {"name": "T", "data_type": "TYPE_FP32", "dims": [4], "optional": False}
        new = {"name": "T", "data_type": "TYPE_FP32", "dims": [4]}
        whole = dict(input=[present], output=[present], max_batch_size=4, model_transaction_policy={"decoupled": False})
        cases = [
            ("set_max_batch_size", 2,
                "configuration specified max_batch_size 4, but in auto-complete-config function for model 'm' "
                "specified max_batch_size 2"),
            ("add_input", dict(new, data_type="TYPE_INT8"),
                "unable to load model 'm', configuration expects datatype TYPE_FP32 for input 'T', model provides "
                "TYPE_INT8"),
            ("add_output", dict(new, dims=[5]),
                "model 'm', tensor 'T': the model expects dims [5] but the model configuration specifies dims [4]"),
            ("add_input", dict(new, optional=True),
                "model 'm', tensor 'T': the model expects optional True but the model configuration specifies "
                "optional False"),
            ("add_output", dict(new, optional=True),
                "output 'T' in auto-complete-config function for model 'm' contains property other than 'name', "
                "'data_type' and 'dims'."),
            ("add_input", {"data_type": "TYPE_INT8", "dims": []},
                "input in auto-complete-config function for model 'm' is missing 'name' property."),
            ("add_input", {"name": "X", "dims": []},
                "input 'X' in auto-complete-config function for model 'm' is missing 'data_type' property."),
            ("add_output", {"name": "X", "data_type": "TYPE_INT8"},
                "output 'X' in auto-complete-config function for model 'm' is missing 'dims' property."),
            ("set_model_transaction_policy", {"coupled": 1},
                "model transaction property in auto-complete-config function for model 'm' contains property other "
                "than 'decoupled'."),
            ("set_model_transaction_policy", {"decoupled": True},
                "trying to change decoupled property in auto-complete-config for model 'm', which is already set to "
                "'False'."),
        ]
        for function, argument, text in cases:
            with self.subTest(text), self.assertRaises(ValueError) as caught:
                getattr(config(**whole), function)(argument)
            self.assertEqual(str(caught.exception), text)
        for scheduler in ("sequence_batching", "ensemble_scheduling"):
            with self.assertRaises(ValueError) as caught:
                config(**{scheduler: {}}).set_dynamic_batching()
            self.assertIn("Configuration specified scheduling_choice as '%s'" % scheduler, str(caught.exception))


class Tensor(unittest.TestCase):
    def test_of_every_type(self):
        for number in range(1, 13):
            array = np.array([[0, 1]], dtype=pb.triton_to_numpy_type(number))
            tensor = pb.Tensor("T", array)
            seen = tensor.name(), tensor.triton_dtype(), tensor.shape(), tensor.is_cpu()
            self.assertEqual(seen, ("T", number, [1, 2], True))
            self.assertIs(tensor.as_numpy(), array)

    def test_made_fit(self):
        sliced = np.arange(12).reshape(3, 4)[:, ::2]
        self.assertTrue(pb.Tensor("T", sliced).as_numpy().flags.c_contiguous)
        self.assertEqual(pb.Tensor("T", np.array([1, 2], dtype=">i4")).as_numpy().tolist(), [1, 2])
        self.assertEqual(pb.Tensor("T", np.float32(3)).shape(), [])
        texts = [np.array(["grün"])]
        if hasattr(np.dtypes if hasattr(np, "dtypes") else None, "StringDType"):
            texts.append(np.array(["grün"], dtype=np.dtypes.StringDType()))
        for array in texts:
            tensor = pb.Tensor("T", array)
            self.assertEqual((tensor.triton_dtype(), tensor.as_numpy().tolist()), (13, ["grün"]))

    def test_refused(self):
        for name, array, text in [
            ("", np.zeros(1), "Tensor name cannot be an empty string."),
            ("T", np.zeros(1, dtype=np.complex64), "NumPy dtype is not supported."),
        ]:
            with self.assertRaises(pb.TritonModelException) as caught:
                pb.Tensor(name, array)
            self.assertEqual(str(caught.exception), text)
        for name, array in (("T", None), ("", None), (None, np.zeros(1))):
            with self.assertRaises(TypeError):
                pb.Tensor(name, array)
        log = pb.Logger
        for message, level in (("no level", None), ("a number", 1), (None, log.INFO), (5, log.INFO)):
            with self.assertRaises(TypeError):
                log.log(message, level)
        for method in (log.log, log.log_info, log.log_warn, log.log_error, log.log_verbose):
            with self.assertRaises(TypeError):
                method(None)


class DLPack(unittest.TestCase):
    def test_numpy_takes_ours(self):
        for number in range(1, 13):
            if number == 1 and np.lib.NumpyVersion(np.__version__) < "1.25.0":
                continue  # it does not import bool
            array = np.array([[0, 1, 1], [1, 0, 1]], dtype=pb.triton_to_numpy_type(number))
            taken = np.from_dlpack(pb.Tensor("T", array))
            self.assertEqual(taken.dtype, array.dtype)
            np.testing.assert_array_equal(taken, array)
            self.assertEqual(taken.__array_interface__["data"][0], array.__array_interface__["data"][0])

    def test_round_trip_shares_memory(self):
        array = np.arange(6, dtype=np.int16).reshape(2, 3)
        back = pb.Tensor.from_dlpack("B", pb.Tensor("A", array).to_dlpack())
        array[1, 2] = 99
        self.assertEqual(back.as_numpy()[1, 2], 99)
        self.assertEqual(back.name(), "B")

    def test_memory_is_given_back(self):
        array = np.zeros(4, dtype=np.float32)
        before = sys.getrefcount(array)
        capsule = pb.Tensor("A", array).to_dlpack()
        self.assertGreater(sys.getrefcount(array), before)
        del capsule
        gc.collect()
        self.assertEqual(sys.getrefcount(array), before)
        tensor = pb.Tensor.from_dlpack("B", pb.Tensor("A", array).to_dlpack())
        del tensor
        gc.collect()
        self.assertEqual(sys.getrefcount(array), before)

    def test_a_capsule_keeps_its_tensor(self):
        tensor = pb.Tensor("A", np.arange(3, dtype=np.float32))
        before = sys.getrefcount(tensor)
        capsule = tensor.to_dlpack()
        self.assertEqual(sys.getrefcount(tensor), before + 1)
        del capsule
        self.assertEqual(sys.getrefcount(tensor), before)

    def test_bfloat16(self):
        capsule = _nereid_dlpack.export(np.array([0x3F80, 0x4000], dtype=np.uint16), True, None)
        tensor = pb.Tensor.from_dlpack("B", capsule)
        self.assertEqual((tensor.triton_dtype(), tensor.shape()), (14, [2]))
        with self.assertRaises(pb.TritonModelException) as caught:
            tensor.as_numpy()
        self.assertEqual(
            str(caught.exception),
            "Tensor dtype is BF16 and cannot be converted to NumPy. Use to_dlpack() and from_dlpack() instead.",
        )
        array, bf16 = _nereid_dlpack.take(tensor)
        self.assertTrue(bf16)
        self.assertEqual(array.tolist(), [0x3F80, 0x4000])

    def test_a_consumer_refuses(self):
        # numpy does not have bfloat16. It raises in C, and the capsule is destroyed while the exception is set.
        array = np.array([0x3F80, 0x4000], dtype=np.uint16)
        tensor = pb.Tensor("B", array)
        tensor._code = 14
        before = sys.getrefcount(array)
        for _ in range(3):
            with self.assertRaisesRegex((BufferError, RuntimeError), "(?i)dtype"):
                np.from_dlpack(tensor)
            self.assertEqual(sys.getrefcount(array), before)

    def test_a_taker_dies_of_an_exception(self):
        array = np.arange(4, dtype=np.float32)
        before = sys.getrefcount(array)

        def fail():
            taken = np.from_dlpack(pb.Tensor("A", array))
            capsule = pb.Tensor("A", array).to_dlpack()
            raise KeyError(float(taken[1]), type(capsule).__name__)

        with self.assertRaises(KeyError) as caught:
            fail()
        self.assertEqual(caught.exception.args, (1.0, "PyCapsule"))
        caught.exception.__traceback__ = None
        del caught
        self.assertEqual(sys.getrefcount(array), before)

    def test_read_only(self):
        array = np.frombuffer(b"\0\1\2\3", np.uint8)
        for source in (array, array.view(np.bool_)):
            back = pb.Tensor.from_dlpack("B", pb.Tensor("A", source).to_dlpack()).as_numpy()
            self.assertEqual(back.dtype, source.dtype)
            self.assertEqual(back.tolist(), source.tolist())
            self.assertEqual(back.__array_interface__["data"][0], array.__array_interface__["data"][0])

    def test_empty(self):
        self.assertEqual(pb.Tensor.from_dlpack("E", np.zeros((0, 3), np.float32)).shape(), [0, 3])
        self.assertEqual(np.from_dlpack(pb.Tensor("E", np.zeros((0, 3), np.float32))).shape, (0, 3))
        self.assertEqual(np.from_dlpack(pb.Tensor("E", np.float32(3))).shape, ())

    def test_refused(self):
        used = pb.Tensor("A", np.zeros(1)).to_dlpack()
        pb.Tensor.from_dlpack("B", used)
        cases = [
            (np.zeros((2, 3)).T, "not contiguous"),
            (3, "Provided tensor is not supported."),
            (used, "can be taken once"),
        ]
        for source, text in cases:
            with self.assertRaises(pb.TritonModelException) as caught:
                pb.Tensor.from_dlpack("T", source)
            self.assertIn(text, str(caught.exception))
        with self.assertRaises(pb.TritonModelException) as caught:
            pb.Tensor("S", np.array([b"x"], dtype=object)).to_dlpack()
        self.assertEqual(str(caught.exception), "DLPack does not have support for string tensors.")


class Request(unittest.TestCase):
    def test_members(self):
        tensor = pb.Tensor("I", np.zeros(1))
        made = pb.InferenceRequest(
            request_id="r", correlation_id="c", inputs=[tensor], requested_output_names=["O"], model_name="m",
            model_version=3, flags=pb.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, timeout=5,
            preferred_memory=pb.PreferredMemory(pb.TRITONSERVER_MEMORY_CPU), parameters={"a": 1, "b": "x", "c": True},
        )  # fmt: skip
        self.assertEqual(made.request_id(), "r")
        self.assertEqual(made.correlation_id(), "c")
        self.assertEqual(made.inputs(), [tensor])
        self.assertEqual(made.requested_output_names(), {"O"})
        self.assertEqual(made.flags(), 1)
        made.set_flags(pb.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END)
        self.assertEqual(made.flags(), 2)
        self.assertEqual(made.timeout(), 5)
        self.assertEqual(json.loads(made.parameters()), {"a": 1, "b": "x", "c": True})
        self.assertFalse(made.is_cancelled())
        self.assertIsNone(made.trace().get_context())
        self.assertEqual(pb.InferenceRequest(model_name="m", inputs=[], requested_output_names=[]).correlation_id(), 0)

    def test_bytes_are_text(self):
        made = pb.InferenceRequest(b"r", 0, [], [b"O"], "grün".encode())
        self.assertEqual((made.request_id(), made.model_name()), ("r", "grün"))
        self.assertEqual(made.requested_output_names(), {"O"})

    def test_refused(self):
        for arguments, text in [
            (dict(correlation_id=1.5), "Correlation ID must be integer or string"),
            (dict(inputs=[None]), "Input tensor for request with id '' and model name 'm' should not be empty."),
            (dict(requested_output_names=[""]),
                "Requested output name for request with id '' and model name 'm' should not be empty."),
            (dict(parameters={"a": [1]}),
                "Expect parameters values to have type bool/int/str, found type <class 'list'>"),
            (dict(parameters={1: 1}), "Expect parameters keys to have type str, found type <class 'int'>"),
        ]:
            with self.assertRaises(pb.TritonModelException) as caught:
                pb.InferenceRequest(**{**dict(model_name="m", inputs=[], requested_output_names=[]), **arguments})
            self.assertEqual(str(caught.exception), text)
        whole = dict(model_name="m", inputs=[], requested_output_names=[])
        pb.InferenceRequest(**whole)
        for name in whole:
            with self.subTest("missing", name=name), self.assertRaises(TypeError):
                pb.InferenceRequest(**{k: v for k, v in whole.items() if k != name})
        for name, wrong in (
            [(name, None) for name in ("request_id", "correlation_id", *whole, "model_version", "flags", "timeout")]
            + [("inputs", 5), ("inputs", "I"), ("inputs", [np.zeros(1)]), ("requested_output_names", "O")]
            + [("requested_output_names", [None]), ("requested_output_names", [1]), ("model_name", 1)]
            + [("model_version", 1.5), ("model_version", "1"), ("flags", -1), ("timeout", -1), ("timeout", 2**64)]
            + [("correlation_id", -1), ("correlation_id", 2**64), ("preferred_memory", 3), ("trace", 5)]
            + [("trace", "{}"), ("preferred_memory", pb.TRITONSERVER_MEMORY_GPU)]
        ):  # fmt: skip
            with self.subTest("wrong", name=name, value=wrong), self.assertRaises(TypeError):
                pb.InferenceRequest(**{**whole, name: wrong})
        for value in (0, 2**64 - 1, "", "c"):
            self.assertEqual(pb.InferenceRequest(**whole, correlation_id=value).correlation_id(), value)
        made = pb.InferenceRequest(**whole)
        for value in (-1, 2**32, 1.5, None):
            with self.subTest("flags", value=value), self.assertRaises(TypeError):
                made.set_flags(value)
        for version in (2, -1, np.int64(2)):
            self.assertEqual(pb.InferenceRequest(**whole, model_version=version).model_version(), version)

    def test_preferred_memory(self):
        for kind in (pb.TRITONSERVER_MEMORY_GPU, pb.TRITONSERVER_MEMORY_CPU):
            for device in (0, 7, np.int64(1), -(2**63), 2**63 - 1):
                pb.PreferredMemory(kind, device)
        for arguments in ((2,), (-1,), ("GPU",), (None,), (0, 1.5), (0, "0"), (0, None), (0, 2**63)):
            with self.subTest(arguments=arguments), self.assertRaises(TypeError):
                pb.PreferredMemory(*arguments)

    def test_release_flags(self):
        made = pb.InferenceRequest(model_name="m", inputs=[], requested_output_names=[])
        made.set_release_flags(pb.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
        with self.assertRaises(pb.TritonModelException):
            made.set_release_flags(9)

    def test_needs_a_server(self):
        with self.assertRaises(pb.TritonModelException):
            pb.InferenceRequest(model_name="m", inputs=[], requested_output_names=[]).exec()


class Response(unittest.TestCase):
    def test_members(self):
        tensor = pb.Tensor("O", np.zeros(1))
        made = pb.InferenceResponse(output_tensors=[tensor], parameters={"k": 1})
        self.assertEqual(made.output_tensors(), [tensor])
        self.assertFalse(made.has_error())
        self.assertEqual(made.parameters(), '{"k": 1}')
        failed = pb.InferenceResponse(error=pb.TritonError("no", pb.TritonError.NOT_FOUND))
        self.assertTrue(failed.has_error())
        self.assertEqual((failed.error().message(), failed.error().code()), ("no", 2))

    def test_refused(self):
        with self.assertRaises(pb.TritonModelException):
            pb.InferenceResponse([None])
        with self.assertRaises(TypeError):
            pb.InferenceResponse([np.zeros(1)])
        with self.assertRaises(TypeError):
            pb.InferenceResponse([], "a text")

    def test_integers_have_64_bits(self):
        # A larger one would be a double in the response, and another number.
        for value in -(2**63), 2**63 - 1, 2**64 - 1:
            self.assertEqual(json.loads(pb.InferenceResponse([], parameters={"n": value}).parameters()), {"n": value})
        for value in -(2**63) - 1, 2**64, 10**5000:
            with self.assertRaises(pb.TritonModelException) as caught:
                pb.InferenceResponse([], parameters={"n": value})
            self.assertEqual(str(caught.exception), "Expect parameters integers of at most 64 bits, 'n' has more")


class Errors(unittest.TestCase):
    def test_codes(self):
        names = ["UNKNOWN", "INTERNAL", "NOT_FOUND", "INVALID_ARG", "UNAVAILABLE", "UNSUPPORTED", "ALREADY_EXISTS",
            "CANCELLED"]
        self.assertEqual([getattr(pb.TritonError, name) for name in names], list(range(8)))
        self.assertEqual(pb.TritonError("x").code(), pb.TritonError.INTERNAL)
        with self.assertRaises(TypeError):
            pb.TritonError(None)
        self.assertTrue(issubclass(pb.TritonModelException, Exception))


class Arena(unittest.TestCase):
    def setUp(self):
        self.fd = os.memfd_create("test")
        self.addCleanup(os.close, self.fd)

    def test_slots_of_arrays(self):
        up = _nereid_arena.Up(self.fd)
        array = up.empty((3000,), np.dtype(np.float32))
        (slot,) = up._empties.values()
        self.assertNotEqual(up.allocate(12000).at, slot.at)
        del array
        gc.collect()
        self.assertEqual(up.allocate(12000).at, slot.at)

    def test_a_forked_process_frees_no_slot(self):
        up, down = _nereid_arena.Up(self.fd), _nereid_arena.Down(self.fd)
        array = up.empty((3000,), np.dtype(np.float32))
        (slot,) = up._empties.values()
        other = up.allocate(8000)
        taken = down.take(other.at, 8000)
        child = os.fork()
        if child == 0:
            del array, taken
            gc.collect()
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual([up._mapped.map[s.at - _nereid_arena.HEADER] for s in (slot, other)], [1, 1])
        del array, taken
        gc.collect()
        self.assertEqual([up._mapped.map[s.at - _nereid_arena.HEADER] for s in (slot, other)], [0, 0])

    def test_a_slot_that_another_thread_has_taken(self):
        # Another thread may take the slot of an array that was sent, before the array's finalizer runs.
        up = _nereid_arena.Up(self.fd)
        array = up.empty((3000,), np.dtype(np.float32))
        (slot,) = up._empties.values()
        self.assertEqual(up.send_empty(array), slot.at)
        taken = []

        def take(_):
            up._mapped.map[slot.at - _nereid_arena.HEADER] = 0  # as the server does
            taken.append(up.allocate(12000))

        watch = _nereid_arena.weakref.ref(array.base, take)  # called before what the arena itself waits for
        del array
        gc.collect()
        self.assertIsNotNone(watch)
        self.assertIs(taken[0], slot)
        self.assertEqual(up._mapped.map[slot.at - _nereid_arena.HEADER], 1)

    def inputs(self):
        """An arena of 1 MiB that a server would allocate in."""
        down = os.memfd_create("test")
        self.addCleanup(os.close, down)
        os.ftruncate(down, 1 << 20)
        return _nereid_arena.Down(down)

    def test_an_input_that_is_sent_back(self):
        # It stays where it is if the model has nothing of it any more.
        arena = self.inputs()
        codec = _nereid_codec.Codec(arena, _nereid_arena.Up(self.fd))
        kept = []
        for name, keep, stays in (
            ("nothing is kept", lambda request, x: None, True),
            ("a part of it was", lambda request, x: x[:5].sum(), True),
            ("the array is", lambda request, x: x, False),
            ("a view is", lambda request, x: x[5:9], False),
            ("a view of other type is", lambda request, x: x.view(np.int32), False),
            ("the tensor is", lambda request, x: request, False),
        ):
            for answer in (lambda x: x, lambda x: x.reshape(100, -1), lambda x: x[1000:]):
                for several, series in ((False, False), (False, True), (True, False), (True, True)):
                    request = pb.Tensor._received("IN", 11, (10000,), arena.take(_nereid_arena.TABLE + 4096, 40000))
                    x = request.as_numpy()
                    kept.append(keep(request, x))
                    tensors = [pb.Tensor("OUT", answer(x))] + [pb.Tensor("MORE", np.zeros(1))] * several
                    response = pb.InferenceResponse(tensors)
                    del request, x, tensors
                    with self.subTest(name, several=several, series=series):
                        sent = []
                        find = arena.find
                        arena.find = lambda array: sent.append(find(array)) or sent[-1]
                        if series:
                            codec.one((1, 0, response, None), 5, 5)
                        else:
                            codec.responses([(1, 0, response, None)])
                        del arena.find
                        self.assertEqual([at >= 0 for at in sent], [True] if stays else [])

    def test_a_tensor_that_is_kept_when_it_was_sent_back(self):
        # The server reads the input in place. So the model gets a copy, which it may change.
        arena = self.inputs()
        codec = _nereid_codec.Codec(arena, _nereid_arena.Up(self.fd))
        for more in ([], [pb.Tensor("MORE", np.zeros(1))]):
            with self.subTest(several=bool(more)):
                data = arena.take(_nereid_arena.TABLE + 4096, 40000)
                data[:] = 0
                tensor = pb.Tensor("OUT", pb.Tensor._received("IN", 11, (100, 100), data).as_numpy())
                del data
                _, kept = codec.responses([(1, 0, pb.InferenceResponse([tensor] + more), None)])
                self.assertEqual(len(kept), 1)  # it stayed where it is
                tensor.as_numpy()[:] += 1
                self.assertEqual((tensor.as_numpy().sum(), tensor.shape()), (10000, [100, 100]))
                self.assertEqual(kept[0].sum(), 0)
                self.assertEqual(codec.responses([(1, 0, pb.InferenceResponse([tensor] + more), None)])[1], [])

    def test_texts_that_are_sent_on_unseen(self):
        arena = self.inputs()
        codec = _nereid_codec.Codec(arena, _nereid_arena.Up(self.fd))
        texts = pb.serialize_byte_tensor(np.array([b"x" * 10000, b""], np.object_))
        data = arena.take(_nereid_arena.TABLE + 4096, len(texts))
        data[:] = np.frombuffer(texts, np.uint8)
        tensor = pb.Tensor._received("IN", pb._BYTES, (2,), data)
        del data
        for what, made in (
            ("answer", lambda: codec.responses([(1, 0, pb.InferenceResponse([tensor]), None)])),
            ("answer of a series", lambda: codec.one((1, 0, pb.InferenceResponse([tensor]), None), 5, 5)),
            ("call", lambda: codec.bls(pb.InferenceRequest(model_name="m", requested_output_names=[], inputs=[tensor]),
                0, 0)),
        ):
            with self.subTest(what):
                _, kept = made()
                self.assertEqual([k.tobytes() for k in kept], [texts])
        self.assertEqual(list(tensor.as_numpy()), [b"x" * 10000, b""])

    def test_a_response_that_cannot_be_written(self):
        down = os.memfd_create("test")
        self.addCleanup(os.close, down)
        os.ftruncate(down, _nereid_arena.TABLE)
        up = _nereid_arena.Up(self.fd)
        codec = _nereid_codec.Codec(_nereid_arena.Down(down), up)
        own = up.empty((3000,), np.dtype(np.float32))
        (slot,) = up._empties.values()
        text = np.array(["x" * 50000], np.object_)
        tensors = [pb.Tensor("A", np.zeros(50000)), pb.Tensor("B", own), pb.Tensor("C", text)]
        bad = pb.Tensor("D", np.array(["\ud800"], np.object_))
        with self.assertRaises(UnicodeEncodeError):
            codec.responses([(1, 0, pb.InferenceResponse(tensors + [bad]), None)])
        request = pb.InferenceRequest(model_name="m", inputs=tensors + [bad], requested_output_names=[])
        with self.assertRaises(UnicodeEncodeError):
            codec.bls(request, 0, 0)
        in_use = [s.at for slots in up._rooms.values() for s in slots if up._mapped.map[s.at - _nereid_arena.HEADER]]
        self.assertEqual(in_use, [slot.at])
        self.assertEqual(up.send_empty(own), slot.at)  # as if it had never been sent


class Requests(unittest.TestCase):
    """What a codec has read before changes nothing of what it reads."""

    def setUp(self):
        self.fds = [os.memfd_create("test") for _ in range(2)]
        for fd in self.fds:
            self.addCleanup(os.close, fd)
        os.ftruncate(self.fds[0], 1 << 20)
        self.old = self.codec()

    def codec(self):
        return _nereid_codec.Codec(_nereid_arena.Down(self.fds[0]), _nereid_arena.Up(self.fds[1]))

    def body(self, requests, first):
        """An EXECUTE of requests whose tickets count from first."""
        codec, writer = self.codec(), _nereid_codec.Writer()
        writer.add(struct.pack("<II", len(requests), 0))
        begins = []
        for request in requests:
            begins.append(writer._at)
            codec._request(writer, request)
        body = bytearray(writer.finish())
        for i, at in enumerate(begins):
            struct.pack_into("<Q", body, at + 8, first + i)
            struct.pack_into("<I", body, at + 40, (first + i) % 7 if first % 2 else 0xFFFFFFFF)
            body[at + 4] |= requests[i]._flags & 4  # traced
        return body

    @staticmethod
    def seen(request):
        return (
            request._ticket, request._id, request._correlation, request._parameters, list(request._outputs),
            request._model,
            request._version, request._flags, request._timeout, request._priority, request._trace is None,
            request._release,
            request._state and request._state._index, request._sender._ticket, list(request._sender._outputs),
            [
                (t.name(), t.triton_dtype(), t.shape(), t.as_numpy().tolist(), t.as_numpy().flags.writeable)
                for t in request.inputs()
            ],
        )  # fmt: skip

    @staticmethod
    def some(choose):
        arrays = [
            np.arange(4, dtype=np.float32), np.arange(4, dtype=np.int32), np.arange(4, dtype=np.float32).reshape(2, 2),
            np.array([b"ab", b"c"], np.object_), np.zeros((0, 3), np.int8), np.arange(8, dtype=np.int16),
            np.float64([7]),
        ]  # fmt: skip
        count = choose.choice([1, 1, 1, 1, 0, 2])
        tensors = [pb.Tensor(choose.choice("AB"), choose.choice(arrays)) for _ in range(count)]
        request = pb.InferenceRequest(
            request_id=choose.choice(["", "", "x", "8 bytes."]), correlation_id=choose.choice([0, 0, 5, "z"]),
            inputs=tensors, model_name="m",
            requested_output_names=choose.choice([["O"], ["P"], []]), flags=choose.choice([0, 0, 1, 4]),
            timeout=choose.choice([0, 0, 9]), parameters=choose.choice([None, None, {"k": 1}]),
        )  # fmt: skip
        request._priority = choose.choice([0, 0, 2])
        return request

    def test_in_any_order(self):
        choose = random.Random(7)
        pool, total, parsed = [], 0, []
        parse = self.old._request_at
        self.old._request_at = lambda *record: parsed.append(record) or parse(*record)
        for round_ in range(900):
            if round_ % 5 == 0:
                pool[12:] = []
                pool.insert(0, self.some(choose))
            requests = [choose.choice(pool) for _ in range(choose.choice([1, 1, 3]))]
            body = self.body(requests, 3 * round_ + 1)
            total += len(requests)
            read = [c.requests(bytearray(body), "m", 1, ["ALL"], None) for c in (self.old, self.codec())]
            self.assertEqual(*([self.seen(r) for r in made] for made in read))
            self.assertEqual([r._id for r in read[0]], [r._id for r in requests])
        self.assertGreater(total - len(parsed), 200)

    def test_one_like_the_one_before(self):
        request = pb.InferenceRequest("id", 7, [pb.Tensor("A", np.arange(4, dtype=np.float32))], ["O"], "m")
        self.old.requests(self.body([request], 1), "m", 1, [], None)
        self.old._request_at = None  # it must do without
        for first in (2, 3):
            body = self.body([request, request], first)
            codecs = self.old, self.codec()
            self.assertEqual(*([self.seen(r) for r in c.requests(body, "m", 1, [], None)] for c in codecs))

    def test_what_is_remembered_is_bounded(self):
        tensor = pb.Tensor("A", np.arange(4, dtype=np.float32))
        for n in range(0, 40000, 8):
            request = pb.InferenceRequest("", 0, [tensor], [], "m", parameters={"prompt": "x" * n})
            self.old.requests(self.body([request], 1), "m", 1, [], None)
        self.assertLess(sum(len(part) for form in self.old._forms.values() for part in form.constant), 1 << 20)
        self.old._forms.clear()
        for n in range(10, 99):  # each with an id of its own
            self.old.requests(self.body([pb.InferenceRequest(str(n), 0, [tensor], [], "m")], 1), "m", 1, [], None)
            (form,) = self.old._forms.values()
            self.assertEqual(form.fields[0], str(min(n, 18) if n < 74 else 74))
        for _ in range(2):  # and alike again
            self.old.requests(self.body([pb.InferenceRequest("74", 0, [tensor], [], "m")], 1), "m", 1, [], None)
        self.assertEqual(form.unlike, 0)

    def test_what_does_not_decode(self):
        request = pb.InferenceRequest(inputs=[pb.Tensor("A", np.arange(4, dtype=np.float32))],
            requested_output_names=["O"], model_name="m")
        good = self.body([request], 1)
        self.old.requests(bytearray(good), "m", 1, [], None)
        for at in range(len(good)):
            for value in (0, 1, 255):
                body = bytearray(good)
                body[at] = value
                ends = []
                for codec in (self.old, self.codec()):
                    try:
                        ends.append([self.seen(r) for r in codec.requests(bytearray(body), "m", 1, [], None)])
                    except Exception as problem:
                        ends.append((type(problem), str(problem)))
                self.old.requests(bytearray(good), "m", 1, [], None)
                self.assertEqual(repr(ends[0]), repr(ends[1]), "byte %d is %d" % (at, value))


class Series(unittest.TestCase):
    def test_an_answer_behind_a_long_execution(self):
        # Nor does one wait for what is executed behind it that came soon after that.
        self.addCleanup(setattr, _nereid_series, "_HOLD", _nereid_series._HOLD)
        _nereid_series._HOLD = 1 << 60  # all come soon
        fd = os.memfd_create("test")
        self.addCleanup(os.close, fd)
        sent = queue.Queue()
        up = _nereid_arena.Up(fd)
        codec = _nereid_codec.Codec(None, up)
        held = _nereid_series.Held(codec, up, lambda execution, body, last: sent.put(last), None)
        answer = (1, 0, pb.InferenceResponse([pb.Tensor("OUT", np.zeros(1))]), None)
        held.begin(1)
        while held._wake.is_set():
            time.sleep(0.001)
        held.add(answer, False)
        self.assertFalse(sent.get(timeout=60))
        held.add(answer, True)
        self.assertTrue(sent.get(timeout=60))


class Doubling(_nereid_framework.Framework):
    """Doubles its input, but cannot bear a 13."""

    def path(self):
        return ""

    def load(self, path):
        self.runs = 0

    def run(self, inputs, wanted):
        self.runs += 1
        if (inputs["IN"] == 13).any():
            raise ValueError("13")
        return {name: inputs["IN"] * 2 for name in wanted}


class FrameworkBatches(unittest.TestCase):
    def execute(self, *values):
        model = Doubling()
        outputs = [{"name": "OUT", "data_type": "TYPE_FP32"}]
        entries = {"max_batch_size": 8, "input": [{"name": "IN"}], "output": outputs}
        model.initialize({"model_config": json.dumps(entries), "model_name": "m"})
        requests = [
            pb.InferenceRequest(model_name="m", inputs=[pb.Tensor("IN", np.full((1, 2), v, np.float32))],
                requested_output_names=["OUT"])
            for v in values
        ]
        return model, model.execute(requests)

    def test_together(self):
        model, responses = self.execute(1, 2, 3)
        self.assertEqual([r.output_tensors()[0].as_numpy().tolist() for r in responses], [[[2, 2]], [[4, 4]], [[6, 6]]])
        self.assertEqual(model.runs, 1)

    def test_one_that_fails(self):
        _, responses = self.execute(1, 13, 3)
        self.assertEqual([r.has_error() for r in responses], [False, True, False])
        self.assertIn("ValueError: 13", responses[1].error().message())
        self.assertEqual(responses[2].output_tensors()[0].as_numpy().tolist(), [[6, 6]])


if __name__ == "__main__":
    unittest.main()
